"""The steps of the job: parse, join, judge, score, pool. Nothing here knows of files, plans or commands."""
