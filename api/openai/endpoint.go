package openai

import (
	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/completion"
	"weir/api/openai/job"
	"weir/api/openai/llamaserver"
	"weir/api/openai/messages"
	"weir/api/openai/models"
	"weir/api/openai/relay"
	"weir/api/openai/responses"
	"weir/api/openai/translation"
)

// A service is what a model does for requests, whichever of its paths they come on.
type service struct {
	route    string // its main path, as hooks and idempotency keys know it
	upstream string // its path below the base URL of an upstream
	prefix   string // of the ids of its answers
	writes   bool   // its answers are tokens that the model generates
}

// An endpoint says how its requests are read and how its answers are written. The
// generation between the two is the same for all endpoints.
type endpoint struct {
	service
	read   func(completion.Reader, *job.Body, *models.Model) (*job.Job, *api.Error)
	encode func(*job.Job) answer.Encoder

	reword func(*job.Body) (*translation.Translation, *api.Error) // writes a request as a chat; nil: there is no need

	// idle answers requests that ask for no answer of the model, and reports whether it has; nil: there are none.
	idle func(*generating, *models.Model) (bool, *api.Error)
}

var (
	chatEndpoint = endpoint{service{routeChat, relay.PathChat, "chatcmpl-", true}, completion.Reader.ReadChat, completion.NewChatEncoder, nil, nil}

	// Several chats in one request are vLLM's, and are not asked of the servers behind a model, which may be others.
	chatsEndpoint = endpoint{service{routeChats, "", "chatcmpl-", true}, completion.Reader.ReadChats, completion.NewChatEncoder, nil, nil}

	completionEndpoint = endpoint{service{routeCompletions, relay.PathCompletions, "cmpl-", true}, completion.Reader.ReadCompletion, completion.NewCompletionEncoder, nil, nil}

	responseEndpoint = endpoint{service{routeResponses, relay.PathResponses, responses.Prefix, true}, func(r completion.Reader, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
		return responses.Read(r.ReadChat, o, m)
	}, responses.NewEncoder, responses.Translate, nil}

	compactEndpoint = endpoint{service{routeCompact, relay.PathResponses, responses.Prefix, true}, func(r completion.Reader, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
		return responses.ReadCompaction(r.ReadChat, o, m)
	}, responses.NewCompactionEncoder, responses.TranslateCompaction, nil}

	messageEndpoint = endpoint{service{routeMessages, relay.PathMessages, "msg_", true}, func(r completion.Reader, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
		return messages.Read(r.ReadChat, o, m)
	}, messages.NewEncoder, messages.Translate, nil}

	// The native paths of llama.cpp's server are not asked of the servers behind a model, which may be others.
	nativeEndpoint = endpoint{service{routeNative, "", "cmpl-", true}, func(r completion.Reader, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
		return llamaserver.Read(r.ReadCompletion, o, m)
	}, llamaserver.NewEncoder, nil, nil}

	infillEndpoint = endpoint{service{routeInfill, "", "cmpl-", true}, func(r completion.Reader, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
		return llamaserver.ReadInfill(r.ReadCompletion, o, m)
	}, llamaserver.NewEncoder, nil, nil}
)
