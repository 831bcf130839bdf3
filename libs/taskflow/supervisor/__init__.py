"""`taskflow up`: the whole of TaskFlow on one machine, started, kept running and stopped as one.

plan      which processes there are, what each is told, in which order they stop
stack     the whole: start, wait until all are ready, stop in order
child     one service process: restarted when it ends, stopped when asked
backoff   how long to wait before a restart
health    whether a service says that it is ready
console   the output of all, line by line, each with its name
claim     one stack per data directory, and where to find the one that runs
ports     ports that are free
"""
