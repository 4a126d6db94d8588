// Package prose is an English text, for what is measured of a model where the user has no text of their own.
//
//	tokens := vocabulary.AppendEncode(nil, prose.Text, tokenizer.EncodeOptions{})
package prose

import _ "embed"

// Text is about servers, some 5,000 tokens.
//
//go:embed prose.txt
var Text string
