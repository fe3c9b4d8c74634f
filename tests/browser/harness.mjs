// Harness of the browser tests. It starts Chromium and applies to every page: no request to another origin, no error or
// warning in the browser's console, and no serious finding of axe. Each test is a script next to this file.
//
// Usage of a test: node TEST.mjs STARTUP
// STARTUP is the JSON output of `interzone up`.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";

function requiredEnv(name) {
  const value = process.env[name];
  assert.ok(value, `${name} is not set: run eval "$(scripts/browser.sh env)" first`);
  return value;
}

const BROWSER = requiredEnv("INTERZONE_TEST_BROWSER");
const MODULES = requiredEnv("INTERZONE_TEST_BROWSER_MODULES");
const SCREENSHOTS = requiredEnv("INTERZONE_TEST_BROWSER_PICTURES");
const load = createRequire(join(MODULES, "x"));
const { chromium } = load("playwright-core");
const AXE = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");

/** Timeout of each wait on a page, in milliseconds. */
const PAGE_TIMEOUT = 20_000;
/** Timeout of a test: shorter than that of the caller, so that the failure has a message. */
const TEST_TIMEOUT = 80_000;

/**
 * Runs a test. Its arguments are `startup`, the output of `interzone up`; `open`, which opens a URL in a new browser
 * context and may allow an `extraOrigin`; `checkPage`, which takes a screenshot and runs axe; and `allowErrors`, which
 * takes a pattern of browser errors that the test causes on purpose.
 */
export async function runTest(body) {
  const name = basename(process.argv[1], ".mjs");
  const startup = JSON.parse(process.argv[2]);
  const urls = [startup.url, startup.chat, startup.console].filter(Boolean);
  const allowedOrigins = urls.map((url) => new URL(url).origin);
  mkdirSync(SCREENSHOTS, { recursive: true });
  const timer = setTimeout(() => {
    console.error(`${name}: timed out after ${TEST_TIMEOUT} ms`);
    process.exit(1); // The browser exits when its control pipe is closed.
  }, TEST_TIMEOUT);
  const browser = await chromium.launch({
    executablePath: BROWSER,
    // Only local names are resolved, so that no request can leave the machine.
    args: ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1", "--disable-gpu"],
  });
  const errors = [];
  const allowedErrors = [];
  const allowErrors = (pattern) => allowedErrors.push(pattern);
  const pages = [];

  const open = async (url, { width = 1280, height = 800, dark = false, language = "en-US", extraOrigin } = {}) => {
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme: dark ? "dark" : "light",
      reducedMotion: "reduce",
      locale: language,
      // The development CA of `interzone up` is not trusted by the system.
      ignoreHTTPSErrors: true,
    });
    context.setDefaultTimeout(PAGE_TIMEOUT);
    const page = await context.newPage();
    page.on("request", (request) => {
      const { protocol, origin, href } = new URL(request.url());
      if (!["data:", "blob:"].includes(protocol) && !allowedOrigins.includes(origin)) errors.push(`request to ${href}`);
    });
    page.on("console", (line) => {
      const type = line.type();
      if (["error", "warning"].includes(type)) errors.push(`${type}: ${line.text()} ${line.location().url}`);
    });
    page.on("pageerror", (error) => errors.push(`uncaught: ${error.stack}`));
    if (extraOrigin) allowedOrigins.push(extraOrigin);
    pages.push(page);
    await page.goto(url);
    return page;
  };

  const checkPage = async (page, title) => {
    await page.screenshot({ path: join(SCREENSHOTS, `${title}.png`) });
    const devtools = await page.context().newCDPSession(page);
    // The page's content security policy blocks it as a script.
    await devtools.send("Runtime.evaluate", { expression: AXE });
    const found = await page.evaluate(async () => {
      const { violations } = await globalThis.axe.run({ resultTypes: ["violations"], preload: false });
      return violations.map(({ impact, id, help, nodes }) => ({
        impact, id, help, where: nodes.slice(0, 5).map((node) => `${node.target}: ${node.failureSummary}`),
      }));
    });
    const serious = found.filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(serious, [], `serious axe findings on ${title}`);
    await devtools.detach();
  };

  try {
    await body({ startup, open, checkPage, allowErrors });
    const unexpected = errors.filter((line) => !allowedErrors.some((pattern) => pattern.test(line)));
    assert.deepEqual(unexpected, [], "browser errors");
  } catch (error) {
    for (const [index, page] of pages.entries()) {
      if (!page.isClosed()) await page.screenshot({ path: join(SCREENSHOTS, `${name}-failed-${index}.png`) });
    }
    console.error(error, errors);
    console.error(`screenshots are in ${SCREENSHOTS}`);
    process.exitCode = 1;
  } finally {
    await browser.close();
    clearTimeout(timer);
  }
}
