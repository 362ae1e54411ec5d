"""What the journal tells: the life of a job, the latest events, how many jobs come and go."""
