"""`quorumd partitions`: move partitions to other brokers and elect their leaders.

group                  the command group
elect                  preferred and unclean elections
reassign               start, list, cancel and follow reassignments
reassignment_plan      the plan file
reassignment_progress  the progress of the partitions in a plan
"""
