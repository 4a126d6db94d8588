package jsonbody

import (
	"fmt"
	"strings"
	"testing"

	"weir/api"
)

// TestMetadataHasOpenAIsLimits: 16 pairs, names of 64 characters, values of 512, counted as characters.
func TestMetadataHasOpenAIsLimits(t *testing.T) {
	pairs := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"k%d":"v"`, i))
		}
		return "{" + strings.Join(list, ",") + "}"
	}
	for _, tc := range []struct{ metadata, fault string }{
		{pairs(16), ""},
		{pairs(17), "has 17 pairs; it may have 16"},
		{`{"` + strings.Repeat("é", 64) + `":"` + strings.Repeat("é", 512) + `"}`, ""},
		{`{"` + strings.Repeat("é", 65) + `":"v"}`, "has 65 characters"},
		{`{"k":"` + strings.Repeat("é", 513) + `"}`, `metadata["k"] has 513 characters; it may have 512`},
		{`{"k":1}`, "must be an object of texts"},
		{`["k"]`, "must be an object of texts"},
		{`null`, ""},
	} {
		o := &Object{}
		o.Add("metadata", []byte(tc.metadata))
		var fault *api.Error
		got := o.Metadata(&fault)
		if (fault != nil) != (tc.fault != "") || fault != nil && !strings.Contains(fault.Message, tc.fault) {
			t.Errorf("%.80s: %v, want %s", tc.metadata, fault, tc.fault)
		}
		if want := strings.Replace(tc.metadata, "null", "{}", 1); fault == nil && string(got) != want {
			t.Errorf("%.80s is kept as %s", tc.metadata, got)
		}
	}
}
