"""The demo's handlers, its workload, and the audit that proves that no job was lost."""
