"""METHOD URL [AUTHORIZATION]: with Python's own urllib."""

import sys
import urllib.request

method, url, *authorization = sys.argv[1:]
request = urllib.request.Request(url, method=method)
if authorization:
    request.add_header("Authorization", authorization[0])
if method == "POST":
    request.data = b'{"title": "world"}'
    request.add_header("Content-Type", "application/json")
with urllib.request.urlopen(request, timeout=20) as answer:
    print(answer.read().decode())
