package notation

import (
	"strings"

	"weir/tokenizer/grammar"
)

// Read adds the rules of a grammar in either notation: with ::= in it, it is GBNF, else Lark.
func Read(b *grammar.Builder, text string) (grammar.Symbol, error) {
	if strings.Contains(text, "::=") {
		return GBNF(b, text)
	}
	return Lark(b, text)
}

// commonTerminals are the terminals of Lark's library "common" as patterns.
var commonTerminals = map[string]string{
	"DIGIT":          `[0-9]`,
	"HEXDIGIT":       `[0-9a-fA-F]`,
	"INT":            `[0-9]+`,
	"SIGNED_INT":     `[+-]?[0-9]+`,
	"DECIMAL":        `[0-9]+\.[0-9]*|\.[0-9]+`,
	"_EXP":           `[eE][+-]?[0-9]+`,
	"FLOAT":          commonFloat,
	"SIGNED_FLOAT":   `[+-]?(` + commonFloat + `)`,
	"NUMBER":         commonFloat + `|[0-9]+`,
	"SIGNED_NUMBER":  `[+-]?(` + commonFloat + `|[0-9]+)`,
	"ESCAPED_STRING": `"([^"\\\n]|\\.)*"`,
	"LCASE_LETTER":   `[a-z]`,
	"UCASE_LETTER":   `[A-Z]`,
	"LETTER":         `[a-zA-Z]`,
	"WORD":           `[a-zA-Z]+`,
	"CNAME":          `[a-zA-Z_][a-zA-Z_0-9]*`,
	"WS_INLINE":      `[ \t]+`,
	"WS":             `[ \t\f\r\n]+`,
	"CR":             `\r`,
	"LF":             `\n`,
	"NEWLINE":        `(\r?\n)+`,
	"SH_COMMENT":     `#[^\n]*`,
	"CPP_COMMENT":    `//[^\n]*`,
	"C_COMMENT":      `/\*([^*]|\*+[^*/])*\*+/`,
	"SQL_COMMENT":    `--[^\n]*`,
}

const commonFloat = `[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?`
