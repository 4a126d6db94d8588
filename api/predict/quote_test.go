package predict

import (
	"encoding/json"
	"strings"
	"testing"
)

// An error quotes the value that is wrong, cut to what an error may hold, and nothing
// behind it; and it says where the value stands.
func TestErrorsQuoteTheWrongValueAndItsPlace(t *testing.T) {
	r := standard(t)
	long := strings.Repeat("é", 4000)
	input := func(rest string) string { return `{"inputs":[{"name":"input",` + rest + `,"secret":"behind"}]}` }
	for _, c := range []struct{ path, body, want string }{
		{"/v1/models/sums:predict", `{"instances":[[1,2,3,4],[1,2,"x,]",4]],"secret":"behind"}`, `instances[1][2] is "x,]"; it must be a number, true, false, NaN, Infinity, -Infinity or null`},
		{"/v1/models/sums:predict", `{"instances":[[1,2,3,1e999]]}`, `instances[0][3] is 1e999; it must be a number that FP32 holds`},
		{"/v2/models/sums/infer", input(`"data":[1,true,3,4],"shape":[1,4],"datatype":"FP32"`), `data[1] of input "input" is true; it must be a number, NaN, Infinity, -Infinity or null`},
		{"/v2/models/sums/infer", input(`"shape":[4294967296,4294967296],"datatype":"FP32","data":[1,2,3,4]`), `input "input": its shape [4294967296 4294967296] has more elements than the body can hold behind it; send the shape of the data that is sent`},
		{"/v2/models/sums/infer", input(`"shape":[99999999999999999999,4],"datatype":"FP32","data":[1,2,3,4]`), `size 0 in the shape of input "input" is 99999999999999999999; it must be a whole number of at least 0, which 64 bits hold`},
		{"/v1/models/sums:predict", `{"instances":[[1,2,[3],4]]}`, `instances[0][2] is an array; it must be a number, true, false, NaN, Infinity, -Infinity or null`},
		{"/v1/models/sums:predict", `{"instances":[[1,2,{"secret":3},4]]}`, `instances[0][2] is an object; it must be a number, true, false, NaN, Infinity, -Infinity or null`},
		{"/v1/models/sums:predict", `{"instances":[[1,2,3,4],[1,2]]}`, `instances[1] is an array of 2 values, beside ones of 4; all must have one size`},
		{"/v1/models/sums:predict", `{"instances":[[1,2,3,4],5]}`, `instances[1] is 5; it must be inside of 2 arrays, as the values before`},
		{"/v1/models/sums:predict", `{"inputs":[[1,2,3,4],[1,"` + long + `",3]]}`, `inputs[1][1] is "` + long[:38] + `…; it must be a number, true, false, NaN, Infinity, -Infinity or null`},
		{"/v1/models/sums:predict", `{"instances":[[1,2,3,4]] "secret"}`, `at byte 25 of the body stands "secret" where there must be a comma or }`},
		{"/v1/models/echo:predict", `{"instances":[{"b":1,"s":"\"},{"},{"b":-129,"s":"secret"}]}`, `instances[1].b is -129; it must be a number that INT8 holds`},
		{"/v1/models/echo:predict", `{"instances":[{"s":1,"b":2}]}`, `instances[0].s is 1; it must be a string, or {"b64": "…"} for bytes`},
		{"/v1/models/echo:predict", `{"inputs":{"s":["a","\\\"",{"b64":"*"}]}}`, `inputs.s[2] has a b64 that is no base64: illegal base64 data at input byte 0`},
		{"/v2/models/sums/infer", input(`"shape":[1,-4],"datatype":"FP32","data":[1,2,3,4]`), `size 1 in the shape of input "input" is -4; it must be a whole number of at least 0, which 64 bits hold`},
		{"/v2/models/sums/infer", `{"inputs":[{"shape":[1,"four"],"name":"input"}]}`, `size 1 in the shape of inputs[0] is "four"; it must be a whole number of at least 0, which 64 bits hold`},
		{"/v2/models/sums/infer", input(`"shape":[2,2],"datatype":"INT8","data":[[1,2],[3,128]]`), `data[1][1] of input "input" is 128; it must be a number that INT8 holds`},
		{"/v2/models/sums/infer", input(`"data":[1,2,"\u0007",4],"shape":[1,4],"datatype":"FP32"`), `data[2] of input "input" is "\u0007"; it must be a number, NaN, Infinity, -Infinity or null`},
		{"/v2/models/sums/infer", input("\"data\":[1,2,\x07,4],\"shape\":[1,4],\"datatype\":\"FP32\""), `data[2] of input "input" is "\a"; it must be a number, NaN, Infinity, -Infinity or null`},
		{"/v2/models/sums/infer", `{"parameters":{"priority":-1e5}}`, `priority is -1e5; it must be a whole number of at least 0, which 64 bits hold`},
		{"/v2/models/sums/infer", `{"inputs":[{"name":"` + long[:500] + `","shape":[1],"datatype":"FP16","data":[1]}]}`,
			`input "` + long[:40] + `…" is FP16, which JSON cannot carry exactly; send it as binary data, or over gRPC`},
		{"/v2/models/sums/infer", `{"parameters":{"sequence_` + long + `":1}}`,
			`the parameter "sequence_` + long[:30] + `…" is not supported: models here keep nothing between requests; leave it out`},
	} {
		res, got := r.do("POST", c.path, c.body)
		var answer struct{ Error string }
		if err := json.Unmarshal([]byte(got), &answer); err != nil || res.StatusCode != 400 || answer.Error != c.want {
			t.Errorf("%.80s: %d, %v\ngot  %s\nwant %s", c.body, res.StatusCode, err, answer.Error, c.want)
		}
	}
}
