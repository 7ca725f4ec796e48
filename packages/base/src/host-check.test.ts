import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { createHostCheck, isLoopbackHost } from "./host-check.ts";
import { isLoopbackUrl } from "./loopback.ts";

const check = createHostCheck({ host: "0.0.0.0", allowedHosts: ["Search.example.org"] });

suite("host check", () => {
  test("attack: DNS rebinding: a name that is not ours is refused", () => {
    for (const host of [
      "evil.example",
      "evil.example:8080",
      "localhost.evil.example",
      "127.0.0.1.evil.example",
      "notlocalhost",
      "search.example.org.evil.example",
      "sub.search.example.org",
      "[::1",
      "[evil.example]",
      "localhost:80@evil.example",
      "",
    ]) {
      assert.equal(check.hostFault({ host }), "HOST_NOT_ALLOWED", host);
      assert.equal(check.fault({ host }), "HOST_NOT_ALLOWED", host);
    }
  });

  test("loopback names, addresses and configured names are taken, with any port", () => {
    for (const host of [
      "localhost",
      "LOCALHOST:8080",
      "eth.localhost",
      "127.0.0.1:80",
      "127.8.9.10",
      "[::1]:1",
      "10.0.0.5:8080",
      "[2001:db8::7]:8080",
      "search.example.org",
      "search.example.org.:443",
      undefined,
    ]) {
      assert.equal(check.fault({ host }), undefined, host ?? "none");
    }
    assert.equal(createHostCheck({ host: "node7.internal" }).fault({ host: "node7.internal:1317" }), undefined);
  });

  test("attack: a page of another origin is refused, also one at an address in numbers", () => {
    const host = "localhost";
    for (const origin of [
      "https://evil.example",
      "null",
      "",
      "http://6.6.6.6",
      "http://localhost.evil.example",
      "http://localhost:80@evil.example",
      "ws://localhost",
      "file://",
      "chrome-extension://abc",
    ]) {
      assert.equal(check.fault({ host, origin }), "ORIGIN_NOT_ALLOWED", origin);
      assert.equal(check.hostFault({ host, origin }), undefined, origin);
    }
    for (const origin of ["http://localhost:5173", "http://127.0.0.1:3069", "https://search.example.org"]) {
      assert.equal(check.fault({ host, origin }), undefined, origin);
    }
    const bound = createHostCheck({ host: "2001:db8::7" });
    assert.equal(bound.fault({ host, origin: "http://[2001:db8::7]:8080" }), undefined);
  });

  test("attack: a page of another site loads an image from here, or a frame; links to here are followed", () => {
    const from = (site: string, dest: string) => ({
      host: "localhost",
      "sec-fetch-site": site,
      "sec-fetch-dest": dest,
    });
    for (const dest of ["image", "script", "iframe", "empty"]) {
      assert.equal(check.fault(from("cross-site", dest)), "ORIGIN_NOT_ALLOWED", dest);
      for (const site of ["same-origin", "same-site", "none"]) assert.equal(check.fault(from(site, dest)), undefined);
    }
    assert.equal(check.fault(from("cross-site", "document")), undefined);
    assert.equal(check.fault({ ...from("cross-site", "empty"), origin: "http://127.0.0.1:3069" }), undefined);
    assert.equal(check.hostFault(from("cross-site", "image")), undefined);
  });

  test("loopback names and addresses are known, with and without brackets", () => {
    assert.ok(isLoopbackHost("::1") && isLoopbackHost("127.0.0.1") && isLoopbackHost("LocalHost"));
    assert.ok(!isLoopbackHost("0.0.0.0") && !isLoopbackHost("128.0.0.1"));
  });

  test("a URL is of loopback when its host is", () => {
    for (const host of ["localhost", "LOCALHOST", "eth.localhost", "127.8.9.10", "[::1]"]) {
      assert.ok(isLoopbackUrl(`http://${host}:8545/x`) && isLoopbackHost(host), host);
    }
    for (const host of [
      "localhost.evil.example",
      "127.0.0.1.evil.example",
      "0.0.0.0",
      "[2001:db8::1]",
      "evil@localhost.x",
    ]) {
      assert.ok(!isLoopbackUrl(`http://${host}/`), host);
    }
    assert.ok(!isLoopbackUrl("localhost") && !isLoopbackUrl("http://localhost@evil.example/"));
  });
});
