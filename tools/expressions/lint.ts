import { ROOT } from "../sources.ts";
import { checkExpressions, LINEAR_FILE } from "./check.ts";
import { type CollectedFiles, collectExpressions, type Expression, productFiles } from "./collect.ts";
import { constructedExpressions } from "./constructed.ts";
import type { Exception } from "./exceptions.ts";

/** Input of {@link lintExpressions}. */
export interface ExpressionLint {
  readonly exceptions: readonly Exception[];
  /** Files whose constructors are not checked, with the reason. */
  readonly otherConstructors: Readonly<Record<string, string>>;
  /** The product's by default. */
  readonly files?: CollectedFiles;
  /** Returns expressions beside those of the files. Called last, as it loads files of the product. */
  readonly more?: () => Promise<readonly Expression[]>;
  /** List of hashes of linear expressions; the repository's by default. */
  readonly linearFile?: string;
  /** True: also those that the list has are checked. */
  readonly all: boolean;
  /** True: the list is brought up to date. */
  readonly write: boolean;
}

const fileOf = (place: string): string => place.replace(/:\d+$/, "");

/** Returns the faults of expressions, each with its place, and the number of expressions. */
export async function lintExpressions(
  lint: ExpressionLint,
): Promise<{ readonly faults: readonly string[]; readonly count: number }> {
  const { exceptions, otherConstructors, files = productFiles(), more, linearFile = LINEAR_FILE } = lint;
  const faults: string[] = [];
  const { expressions: literals, constructors } = collectExpressions(files);
  const checkedConstructors = constructors.filter((place) => otherConstructors[fileOf(place)] === undefined);
  const calls = await constructedExpressions([...new Set(checkedConstructors.map(fileOf))], files.root ?? ROOT);
  const constructed = calls.filter(({ place }) => checkedConstructors.includes(place));
  for (const place of checkedConstructors) {
    if (constructed.some((expression) => expression.place === place)) continue;
    faults.push(`${place}: construct the expression when the file is loaded, so that its pattern can be checked`);
  }
  const all: readonly Expression[] = [...literals, ...constructed, ...((await more?.()) ?? [])];
  const expressions = [...new Map(all.toReversed().map((one) => [`/${one.source}/${one.flags}`, one])).values()];
  const needed = new Set<Exception>();
  for (const { expression, why } of await checkExpressions(expressions, { ...lint, file: linearFile })) {
    const { place, source, flags } = expression;
    const exception = exceptions.find((one) => one.file === fileOf(place) && one.source === source);
    if (exception === undefined) faults.push(`${place}: /${source}/${flags} is ${why}`);
    else needed.add(exception);
  }
  for (const exception of exceptions) {
    if (!needed.has(exception)) {
      faults.push(`${exception.file}: the exception for /${exception.source}/ is not needed`);
    }
  }
  return { faults: faults.toSorted(), count: expressions.length };
}
