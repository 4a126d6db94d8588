package openapi

// decisionAnswer is what decisions answer with, whose answers have the form of one of the APIs.
func decisionAnswer(answers Schema) Schema {
	return object("", need("model", text("")), need("answers", answers), need("usage", Schema{}))
}

// option is one of the options of a question, by what it is called.
func option(name string, value Schema) Schema {
	return object("", need(name, value), may("description", text("What it means")))
}

// optionAnswer is the probability of an option.
func optionAnswer(fields ...field) Schema {
	return object("", append(fields, need("probability", within(number(""), 0, 1)))...)
}

var (
	choiceValue = either("Unique in its question", text(""), flag(""))

	decisionQuestion = object("", need("type", words("", "predicate", "choice", "score")), may("name", null(text("Unique in the request"))),
		need("instructions", either("The statement or the question", text(""), list("Parts", Schema{}))),
		may("choices", list("The options of a choice, 2 to 255", option("value", choiceValue))),
		may("levels", list("The levels of a score, the lowest first, 2 to 255", option("label", text("Unique in its question")))))

	decisionAnswers = list("In the order of the questions", object("", need("type", words("", "predicate", "choice", "score")), need("name", null(text(""))),
		may("probability", within(number("Of a predicate: that it is true"), 0, 1)), may("choice", either("The most probable one", text(""), flag(""))),
		may("score", number("The mean level, counted from 0")), may("confidence", within(number("Of a choice or score"), 0, 1)),
		may("probabilities", list("Of a choice or score", optionAnswer(may("value", Schema{}), may("label", text("")))))))

	noulQuestion = object("", need("type", words("", "noul", "choice", "score")), may("instructions", Schema{}),
		may("criteria", either("Of noul: what true and false mean; of a choice: descriptions by option; of a score: descriptions, the lowest level first",
			open(""), list("", Schema{}))))
)

var calibrate = may("calibrate", flag("Whether probabilities are corrected as the server's --decision-calibration says; true where it is not given"))

var decisionOperations = map[string]Operation{
	"POST /v1/decisions": {Group: groupOpenAI, Summary: "How probable the options of questions about an input are", Answer: decisionAnswer(decisionAnswers),
		Body: object("", may("model", text("")), need("input", either("", text(""), list("", named("Item")))), need("questions", list("Up to 400", decisionQuestion)),
			may("prompt_cache_key", text("Changes no answer")), may("prompt_cache_options", open("Changes no answer")), may("safety_identifier", text("")), calibrate)},
	"POST /v1/systemone": {Group: groupOpenAI, Summary: "The same in System One's form", Answer: decisionAnswer(open("By the question's name")),
		Body: object("", may("model", text("")), need("state", either("", text(""), open(""), list("", Schema{}))), need("questions", Schema{
			"type": "object", "description": "By name, up to 400", "additionalProperties": noulQuestion}), calibrate)},
}
