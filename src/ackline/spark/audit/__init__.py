"""The audit: reads the journal and the jobs of a store, and of its lake, and checks them.

`findings` has the rules, as functions of DataFrames.
"""
