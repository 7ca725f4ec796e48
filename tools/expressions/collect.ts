import { relative } from "node:path";
import {
  isCallExpression,
  isIdentifier,
  isNewExpression,
  isNoSubstitutionTemplateLiteral,
  isPropertyAssignment,
  isRegularExpressionLiteral,
  isStringLiteral,
  isVariableDeclaration,
  type Node,
} from "typescript/unstable/ast";
import { API } from "typescript/unstable/sync";
import { productSources, ROOT } from "../sources.ts";

/** A regular expression of the sources. */
export interface Expression {
  readonly source: string;
  readonly flags: string;
  /** `path:line` of its first place. */
  readonly place: string;
}

/** Regular expressions of the sources. */
export interface Collected {
  readonly expressions: readonly Expression[];
  /** `path:line` of each constructor whose pattern is not a literal. */
  readonly constructors: readonly string[];
}

/** Patterns of JSON schemas are compiled with this flag. */
const SCHEMA_FLAGS = "u";

const literalText = (node: Node | undefined): string | undefined =>
  node !== undefined && (isStringLiteral(node) || isNoSubstitutionTemplateLiteral(node)) ? node.text : undefined;

/** The name of a constant or a property whose value is a pattern, such as `pattern` or `ID_PATTERN`. */
const isPatternName = (name: string): boolean => name === "pattern" || name.endsWith("_PATTERN");

/** Reads one file's tree. */
function readTree(root: Node, placeOf: (node: Node) => string): Collected {
  const expressions: Expression[] = [];
  const constructors: string[] = [];
  const visit = (node: Node): void => {
    if (isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf("/");
      expressions.push({ source: node.text.slice(1, end), flags: node.text.slice(end + 1), place: placeOf(node) });
    } else if (isCallExpression(node) || isNewExpression(node)) {
      if (isIdentifier(node.expression) && node.expression.text === "RegExp") {
        const [pattern, flags] = node.arguments ?? [];
        const source = literalText(pattern);
        if (source === undefined) constructors.push(placeOf(node));
        else expressions.push({ source, flags: literalText(flags) ?? "", place: placeOf(node) });
      }
    } else if (isPropertyAssignment(node) || isVariableDeclaration(node)) {
      const source = literalText(node.initializer);
      if (source !== undefined && isIdentifier(node.name) && isPatternName(node.name.text)) {
        expressions.push({ source, flags: SCHEMA_FLAGS, place: placeOf(node) });
      }
    }
    node.forEachChild(visit);
  };
  visit(root);
  return { expressions, constructors };
}

/** Sources to read. */
export interface CollectedFiles {
  /** Below the root. */
  readonly paths: readonly string[];
  /** The repository's by default. */
  readonly root?: string;
  /** A `tsconfig.json` that includes them, below the root. */
  readonly config: string;
}

/** Every source of the product. */
export function productFiles(): CollectedFiles {
  return { paths: productSources(), config: "tools/expressions/tsconfig.json" };
}

/** Reads sources. */
export function collectExpressions({ paths, root = ROOT, config: configPath }: CollectedFiles): Collected {
  const api = new API({ cwd: root });
  try {
    const config = `${root}/${configPath}`;
    const project = api.updateSnapshot({ openProjects: [config] }).getProject(config);
    const trees = paths.map((path): Collected => {
      const file = project?.program.getSourceFile(`${root}/${path}`);
      if (file === undefined) throw new TypeError(`${path} is not a file of ${relative(root, config)}`);
      return readTree(file, (node) => `${path}:${file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1}`);
    });
    return {
      expressions: trees.flatMap((tree) => tree.expressions),
      constructors: trees.flatMap((tree) => tree.constructors),
    };
  } finally {
    api.close();
  }
}
