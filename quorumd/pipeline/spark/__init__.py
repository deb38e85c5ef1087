"""Start, configure and observe Spark.

session             a context or session: quiet, on loopback, quick to start
settings            its settings
java                finds a Java that Spark supports, or reports what is missing
failures            converts exceptions of Spark to one-line errors of quorumd
remote_directories  directories on Hadoop file systems, copied to this machine
progress            the progress of Spark's jobs
class_archive       the class-data archive that halves the startup time of a session
warm                makes the archive from the classes that a `rehearsal` of the pipeline loads
"""
