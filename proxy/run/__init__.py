"""`grantproxy run`: a program beside a proxy of its own, which holds the credentials that the program does not."""
