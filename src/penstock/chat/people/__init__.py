"""Persons who may use a server, what each may do, and the record of what they did."""
