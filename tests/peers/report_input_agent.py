"""Command agent that returns its input as JSON, for tests: text, history with roles and users, and metadata.

`long N` returns N characters in paragraphs, `長文 N` the same in Japanese, `markdown` a Markdown document, and
`nothing` an empty text.
"""

import json
import sys


def text_of(message):
    return "".join(part.get("content") or "" for part in message["parts"] if part["type"] == "TextPart")


def author(message):
    return message["role"], (message.get("metadata") or {}).get("user")


def paragraphs(sentence, length):
    line = sentence * 4
    text = ""
    number = 0
    while len(text) < length:
        number += 1
        text += f"{number} {line}\n\n"
    return text[:length].rstrip()


def answer(params):
    text = text_of(params["message"])
    command, _, rest = text.partition(" ")
    if command == "long":
        return paragraphs("The quick brown fox jumps over the lazy dog. ", int(rest))
    if command == "長文":
        return paragraphs("いろはにほへと、ちりぬるを。", int(rest))
    if command == "nothing":
        return ""
    if command == "markdown":
        return "# Title\n\n**bold** and `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nfence <!channel>\n```\n"
    return json.dumps(
        {
            "text": text,
            "history": [[*author(message), text_of(message)] for message in params.get("history") or []],
            "metadata": params.get("metadata"),
        },
        ensure_ascii=False,
    )


for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") != "agent.run":
        continue
    reply = {"role": "agent", "parts": [{"type": "TextPart", "content": answer(message["params"])}]}
    result = {"state": "completed", "message": reply}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
