"""Simulates a user who signs in with a browser: follows redirects, keeps cookies, and fills in and submits the form of
each page, until a page of the client is reached.

Usage: browser.py URL [NAME=VALUE…]   values for the empty fields of the forms
SSL_CERT_FILE names the CA.
"""

import sys
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import httpx

START, *FIELDS = sys.argv[1:]
GIVEN = dict(field.split("=", 1) for field in FIELDS)
MAX_PAGES = 20


class Form(HTMLParser):
    """Parser for the first form of a page."""

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
            # The first of several buttons is pressed.
            if tag == "button" or attributes.get("type") == "submit":
                if any(key == "pressed" for key in self.fields):
                    return
                self.fields["pressed"] = (name, value)
            else:
                self.fields[name] = value

    def handle_endtag(self, tag):
        if tag == "form" and self.inside:
            self.inside, self.done = False, True

    def values(self):
        fields = dict(self.fields)
        pressed = fields.pop("pressed", None)
        fields = {name: value or GIVEN.get(name, "") for name, value in fields.items()}
        return {**fields, pressed[0]: pressed[1]} if pressed else fields


def main():
    origin = urlsplit(START).netloc
    with httpx.Client(timeout=20) as http:
        request = http.build_request("GET", START)
        for _ in range(MAX_PAGES):
            response = http.send(request)
            url = str(response.request.url)
            if response.is_redirect:
                request = http.build_request("GET", urljoin(url, response.headers["location"]))
                continue
            if urlsplit(url).netloc != origin:
                assert response.status_code < 400, f"{url}: {response.status_code} {response.text}"
                print(url)
                return
            form = Form()
            form.feed(response.text)
            assert form.action is not None, f"{url}: {response.status_code}: no form in {response.text}"
            request = http.build_request("POST", urljoin(url, form.action), data=form.values(),
                                         headers={"Origin": f"{urlsplit(url).scheme}://{origin}"})
    raise SystemExit("too many pages")


main()
