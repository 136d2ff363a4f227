"""METHOD URL [AUTHORIZATION]: with httpx."""

import sys

import httpx

method, url, *authorization = sys.argv[1:]
answer = httpx.request(
    method,
    url,
    headers=dict.fromkeys(["Authorization"], authorization[0]) if authorization else {},
    json={"title": "world"} if method == "POST" else None,
    timeout=20,
)
answer.raise_for_status()
print(answer.text)
