"""A command agent that tells what it was given, so that a test can look at it.

Its answer is JSON: the text, the history with who said it, and the names of the files. `long N` answers with N
characters in paragraphs instead, `長文 N` the same in Japanese, and `nothing` with no text at all.
"""

import json
import sys


def text_of(message):
    return "".join(part.get("content") or "" for part in message["parts"] if part["type"] == "TextPart")


def who(message):
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
    word, _, rest = text.partition(" ")
    if word == "long":
        return paragraphs("The quick brown fox jumps over the lazy dog. ", int(rest))
    if word == "長文":
        return paragraphs("いろはにほへと、ちりぬるを。", int(rest))
    if word == "nothing":
        return ""
    if word == "markdown":
        return "# Title\n\n**bold** and `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nfence <!channel>\n```\n"
    return json.dumps(
        {
            "text": text,
            "history": [[*who(message), text_of(message)] for message in params.get("history") or []],
            "metadata": params.get("metadata"),
        },
        ensure_ascii=False,
    )


for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") != "agent.run":
        continue
    said = {"role": "agent", "parts": [{"type": "TextPart", "content": answer(message["params"])}]}
    result = {"state": "completed", "message": said}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
