"""Pure functions from DataFrames to DataFrames: steps, runs, traffic, objectives, forecasts."""
