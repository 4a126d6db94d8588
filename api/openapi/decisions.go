package openapi

// decisionAnswer is what both forms of decisions answer with.
func decisionAnswer() Schema {
	return object("", may("id", text("")), may("model", text("")), may("usage", Schema{}))
}

var decisionOperations = map[string]Operation{
	"POST /v1/decisions": {Group: groupOpenAI, Summary: "How probable the options of questions about an input are", Answer: decisionAnswer(), Body: object("", may("model", text("")),
		need("input", either("", text(""), list("", named("Item")))), may("instructions", text("")),
		need("questions", list("Up to 400", object("", need("type", words("", "predicate", "choice", "score")), may("name", text("")), may("instructions", text(""))))))},
	"POST /v1/systemone": {Group: groupOpenAI, Summary: "The same in System One's form", Answer: decisionAnswer(), Body: object("", may("model", text("")), need("state", Schema{}),
		need("questions", open("By name, each with type, instructions and criteria")))},
}
