"""The story that `ackline demo` tells: jobs that succeed, fail, wait, hang and kill."""
