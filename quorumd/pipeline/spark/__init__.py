"""Everything about Spark itself.

session         a session: quiet, on loopback, quick to start
settings        its settings
java            finding a Java that Spark runs on, and naming what is missing
failures        what Spark raises, as an error of quorumd in one line
progress        the progress of Spark's jobs
class_archive   the class-data archive that halves the start of a session; `warm` makes it by a `rehearsal`
"""
