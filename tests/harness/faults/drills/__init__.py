"""What drills of all servers share: busy processes, faults, and recovery times."""
