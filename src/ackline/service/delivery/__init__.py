"""Jobs on their way to clients: claims, streams and long polls, settling, disconnects."""
