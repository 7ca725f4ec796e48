import type { Operation, Service } from "@turnpike/catalogue";

/** Verbs of declared paths. */
export type Verb = "GET" | "POST";

interface Node {
  readonly literals: Map<string, Node>;
  value: Node | undefined;
  operation: Operation | undefined;
}

interface Index {
  readonly GET: Node;
  readonly POST: Node;
}

const newNode = (): Node => ({ literals: new Map(), value: undefined, operation: undefined });
const NAME = /^(GET|POST) \/(.+)$/;
const VALUE = /^\{[^{}]+\}$/;
const indexes = new WeakMap<Service, Index>();

function indexOf(service: Service): Index {
  const known = indexes.get(service);
  if (known !== undefined) return known;
  const index: Index = { GET: newNode(), POST: newNode() };
  for (const operation of service.operations.values()) {
    const found = NAME.exec(operation.name);
    if (found === null) continue;
    let node = index[found[1] as Verb];
    for (const segment of (found[2] ?? "").split("/")) {
      if (VALUE.test(segment)) {
        node.value ??= newNode();
        node = node.value;
      } else {
        let next = node.literals.get(segment);
        if (next === undefined) {
          next = newNode();
          node.literals.set(segment, next);
        }
        node = next;
      }
    }
    node.operation = operation;
  }
  indexes.set(service, index);
  return index;
}

function find(node: Node, segments: readonly string[], at: number): Operation | undefined {
  const segment = segments[at];
  if (segment === undefined) return node.operation;
  const literal = node.literals.get(segment);
  const found = literal === undefined ? undefined : find(literal, segments, at + 1);
  if (found !== undefined) return found;
  return node.value === undefined ? undefined : find(node.value, segments, at + 1);
}

/**
 * The declared path operation that decoded segments match, segment by segment; a literal segment goes before a value,
 * so that `blocks/latest` is not `blocks/{height}`. The route's own body (`POST /`) is not a path.
 */
export function matchPath(service: Service, verb: Verb, segments: readonly string[]): Operation | undefined {
  return find(indexOf(service)[verb], segments, 0);
}
