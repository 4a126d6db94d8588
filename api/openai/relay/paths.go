package relay

// The paths of requests below the base URL of an upstream.
const (
	PathChat        = "/chat/completions"
	PathCompletions = "/completions"
	PathResponses   = "/responses"
	PathMessages    = "/messages"
)
