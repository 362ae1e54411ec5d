"""From the histories of all processes to a verdict: were the promises kept?"""
