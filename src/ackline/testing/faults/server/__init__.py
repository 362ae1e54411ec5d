"""What drills of any server share: a crew at full work, blows, and the figures of recovery."""
