export { goQuoted as goQuote, goTypeOfValue } from "../../state/go-text.ts";
