// Console with an external issuer: an operator without the scope interzone:content sees tasks, but no content.

import assert from "node:assert/strict";
import { runTest } from "./harness.mjs";

await runTest(async ({ startup, open, checkPage, allowErrors }) => {
  // Errors on the pages of the issuer are not checked.
  const issuer = new URL(startup.issuer);
  allowErrors(new RegExp(issuer.host));
  allowErrors(/googleapis/);
  const page = await open(`${startup.url}/console/tasks/${startup.task}`, { extraOrigin: issuer.origin });
  await page.locator("a", { hasText: "Sign in" }).click();
  await page.locator("input[name=login]").fill("anna");
  await page.locator("input[name=password]").fill("anything");
  await page.locator("[type=submit]").first().click();
  // Consent page.
  await page.locator("[type=submit]", { hasText: "Continue" }).click();
  await page.waitForURL(`${startup.url}/console/tasks/${startup.task}`);
  await page.locator("h1 .badge", { hasText: "Completed" }).waitFor();
  await page.locator(".who", { hasText: "content hidden" }).waitFor();
  const html = await page.content();
  assert.ok(!html.includes(startup.secret), "the page contains the content");
  assert.ok(await page.locator(".hidden").count() > 0);
  await checkPage(page, "console-hidden");
});
