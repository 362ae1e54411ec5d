"""Where jobs are kept: one contract, several stores."""
