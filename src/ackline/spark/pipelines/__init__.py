"""What is made of the journal: pure functions from DataFrames to DataFrames."""
