import { checkExpressions } from "./expressions/check.ts";
import { collectExpressions, type Expression } from "./expressions/collect.ts";
import { constructedExpressions, schemaExpressions } from "./expressions/constructed.ts";
import { EXCEPTIONS, OTHER_CONSTRUCTORS } from "./expressions/exceptions.ts";

// Foreign text decides how long an expression runs: each one of the product is linear in it, or a named exception.
// `--all` checks again what tools/expressions/linear.json lists.

const fileOf = (place: string): string => place.replace(/:\d+$/, "");
const faults: string[] = [];

const { expressions: literals, constructors } = collectExpressions();
const checkedConstructors = constructors.filter((place) => OTHER_CONSTRUCTORS[fileOf(place)] === undefined);
const calls = await constructedExpressions([...new Set(checkedConstructors.map(fileOf))]);
const constructed = calls.filter(({ place }) => checkedConstructors.includes(place));
for (const place of checkedConstructors) {
  if (constructed.some((expression) => expression.place === place)) continue;
  faults.push(`${place}: construct the expression when the file is loaded, so that its pattern can be checked`);
}

const all: readonly Expression[] = [...literals, ...constructed, ...(await schemaExpressions())];
const expressions = [...new Map(all.toReversed().map((one) => [`/${one.source}/${one.flags}`, one])).values()];
const needed = new Set<unknown>();
const options = { all: process.argv.includes("--all"), write: process.env.CI === undefined };
for (const { expression, why } of await checkExpressions(expressions, options)) {
  const { place, source, flags } = expression;
  const exception = EXCEPTIONS.find((one) => one.file === fileOf(place) && one.source === source);
  if (exception === undefined) faults.push(`${place}: /${source}/${flags} is ${why}`);
  else needed.add(exception);
}
for (const exception of EXCEPTIONS) {
  if (!needed.has(exception)) faults.push(`${exception.file}: the exception for /${exception.source}/ is not needed`);
}

for (const fault of faults.toSorted()) process.stderr.write(`${fault}\n`);
if (faults.length === 0)
  process.stdout.write(`${expressions.length} regular expressions are linear or named exceptions\n`);
// The checker's own process would keep this one.
process.exit(faults.length === 0 ? 0 : 1);
