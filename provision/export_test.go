package provision

import "choria-provision/provision/helper"

// The helper's types and causes, as the tests of the sequence name them.
type (
	Answer      = helper.Answer
	HelperInput = helper.Input
)

var (
	ErrHelper       = helper.ErrFailed
	ErrHelperAnswer = helper.ErrAnswer
)
