"""FRONT NAME: one call of a Python SDK, configured as its users do, with a reference where a key would be."""

import os
import sys

front, name = sys.argv[1:]
proxied = front == "proxy"
REFERENCE = "@secret:key"
ASK = [{"role": "user", "content": "Hello"}]


def anthropic(*, stream: bool) -> str:
    import anthropic

    client = anthropic.Anthropic(
        api_key=REFERENCE, max_retries=0, **({"base_url": "https://llm.example"} if proxied else {})
    )
    if stream:
        with client.messages.stream(model="m-1", max_tokens=9, messages=ASK) as events:
            return "".join(events.text_stream)
    return client.messages.create(model="m-1", max_tokens=9, messages=ASK).content[0].text


def openai(*, stream: bool) -> str:
    import openai

    base = "https://llm.example" if proxied else os.environ["LLM_URL"]
    client = openai.OpenAI(api_key=REFERENCE, max_retries=0, base_url=f"{base}/v1")
    if stream:
        events = client.chat.completions.create(model="m-1", messages=ASK, stream=True)
        return "".join(event.choices[0].delta.content or "" for event in events)
    return client.chat.completions.create(model="m-1", messages=ASK).choices[0].message.content or ""


def github() -> str:
    from github import Auth, Github

    base = "https://github.example" if proxied else os.environ["GITHUB_BASE_URL"]
    with Github(auth=Auth.Token(REFERENCE), base_url=f"{base}/api/v3", retry=None) as client:
        # It follows the `url` of what it is answered, which is the API's own; `lazy` has it make the URL itself.
        return client.get_repo("acme/widgets", lazy=not proxied).get_issue(7).title


def boto3() -> str:
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    config = Config(signature_version=UNSIGNED, s3={"addressing_style": "path"}, retries={"max_attempts": 1})
    endpoint = {"endpoint_url": "https://s3.example"} if proxied else {}
    client = boto3.client("s3", region_name="us-east-1", config=config, **endpoint)
    return client.get_object(Bucket="public", Key="a.txt")["Body"].read().decode()


CALLS = {
    "anthropic": lambda: f"{anthropic(stream=False)}|{anthropic(stream=True)}",
    "openai": lambda: f"{openai(stream=False)}|{openai(stream=True)}",
    "PyGithub": github,
    "boto3": boto3,
}
print(CALLS[name]())
