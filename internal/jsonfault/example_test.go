package jsonfault_test

import (
	"encoding/json"
	"fmt"

	"weir/internal/jsonfault"
)

// A client reads which of its fields is wrong, where encoding/json names a type of Go.
func Example() {
	var request struct {
		MaxTokens int `json:"max_tokens"`
	}
	for _, text := range []string{`{"max_tokens": "ten"}`, `{"max_tokens": 10,}`, `{"max_tokens": NaN}`} {
		err := json.Unmarshal([]byte(text), &request)
		fmt.Println(jsonfault.Describe(err, []byte(text)))
	}
	// Output:
	// max_tokens is a JSON string; it must be a whole number in 64 bits
	// invalid character '}' looking for beginning of object key string at byte 19, near "}"
	// byte 16 has NaN, and JSON has no NaN and no Infinity; send null for a missing value
}
