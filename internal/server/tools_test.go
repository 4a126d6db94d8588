package server_test

import (
	"encoding/json"
)

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
