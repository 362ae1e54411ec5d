"""The cases, grouped by what they are about; each names the rule of the design it holds to."""
