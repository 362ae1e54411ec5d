"""Programs that run in processes of their own, so that they can be killed; each is one role."""
