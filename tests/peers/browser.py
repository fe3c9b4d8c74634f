"""A browser with a person in front of it, as far as logging in goes: follows redirects, keeps
cookies, fills in the form that a page shows and sends it, until the client's own address answers.

Usage: browser.py URL [NAME=VALUE…]   values for the fields that a form leaves empty
The certificate authority is named by SSL_CERT_FILE.
"""

import sys
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import httpx

START, *FIELDS = sys.argv[1:]
GIVEN = dict(field.split("=", 1) for field in FIELDS)
MOST_PAGES = 20


class Form(HTMLParser):
    """The first form of a page."""

    def __init__(self):
        super().__init__()
        self.action, self.fields, self.inside, self.done = None, {}, False, False

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "form" and not self.done:
            self.action, self.inside = attributes.get("action", ""), True
        elif self.inside and tag in ("input", "button") and attributes.get("name"):
            name, value = attributes["name"], attributes.get("value") or ""
            if attributes.get("type") == "checkbox" and "checked" not in attributes:
                return
            # Of several buttons, the first is pressed.
            if tag == "button" or attributes.get("type") == "submit":
                if any(key == "pressed" for key in self.fields):
                    return
                self.fields["pressed"] = (name, value)
            else:
                self.fields[name] = value

    def handle_endtag(self, tag):
        if tag == "form" and self.inside:
            self.inside, self.done = False, True

    def filled(self):
        fields = dict(self.fields)
        pressed = fields.pop("pressed", None)
        fields = {name: value or GIVEN.get(name, "") for name, value in fields.items()}
        return {**fields, pressed[0]: pressed[1]} if pressed else fields


def main():
    origin = urlsplit(START).netloc
    with httpx.Client(timeout=20) as http:
        request = http.build_request("GET", START)
        for _ in range(MOST_PAGES):
            answer = http.send(request)
            here = str(answer.request.url)
            if answer.is_redirect:
                request = http.build_request("GET", urljoin(here, answer.headers["location"]))
                continue
            if urlsplit(here).netloc != origin:
                assert answer.status_code < 400, f"{here}: {answer.status_code} {answer.text}"
                print(here)
                return
            form = Form()
            form.feed(answer.text)
            assert form.action is not None, f"{here}: {answer.status_code}: no form in {answer.text}"
            request = http.build_request("POST", urljoin(here, form.action), data=form.filled(),
                                         headers={"Origin": f"{urlsplit(here).scheme}://{origin}"})
    raise SystemExit("too many pages")


main()
