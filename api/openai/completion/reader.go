package completion

import "weir/api/openai/params"

// A Reader reads requests of chat completions and completions, by the rules of a server.
type Reader struct {
	Rules        *params.Rules
	MaxMessages  int  // of one chat
	ParseSpecial bool // default of parse_special: control tokens in the text of completions are parsed
}
