import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";
import type { ServiceId } from "@turnpike/base";
import { service, standInRelay, startTestGateway, type TestGateway } from "../../test/stand-ins.ts";

const CALL = '{"jsonrpc":"2.0","id":1,"method":"thing_read"}';

function post(to: TestGateway, path: string, headers: Record<string, string> = {}): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const sent = request(`${to.url}${path}`, { method: "POST", headers }, (res) => {
    res.resume();
    resolve(res.statusCode);
  });
  sent.on("error", reject);
  sent.end(CALL);
  return promise;
}

test("a service whose id is no host label is served by path and header, in its exact case, and has no host", async () => {
  const services = ["My_Api", "my_api", "my-api"].map((id) =>
    service(id, { families: [], paid: false, operations: new Map() }),
  );
  const byId = new Map(services.map((one) => [one.id, one]));
  const relay = standInRelay(services.map(({ id }) => id));
  const catalogue = { services: byId, get: (id: string) => byId.get(id as ServiceId) };
  await using to = await startTestGateway({}, { catalogue, relay });
  for (const id of ["My_Api", "my_api"]) {
    assert.equal(await post(to, `/relay/${id}`), 200, id);
    assert.equal(await post(to, "/v1", { "target-service-id": id }), 200, id);
  }
  assert.equal(await post(to, "/relay/MY_API"), 404);
  assert.equal(await post(to, "/", { host: "my_api.localhost" }), 404, "it may be one of two");
  assert.equal(await post(to, "/", { host: "My_Api.localhost" }), 404);
  assert.equal(await post(to, "/", { host: "my-api.localhost" }), 200);
  assert.equal(await post(to, "/v1/My_Api"), 404, "it is not sold");
});
