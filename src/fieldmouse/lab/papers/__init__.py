"""The published works fieldmouse is made of, number by number, and what goes beyond them.

Each module holds what a paper printed and how to compute it again with our own
policies and solvers; `fieldmouse.lab.catalogue` lists what they offer.
"""
