"""What drills of any server share: processes at full work, faults, and times of recovery."""
