package openai

import "strconv"

// headerQuote makes a client's text fit for a response header.
func headerQuote(text string) string {
	return strconv.QuoteToASCII(quote([]byte(text)))
}
