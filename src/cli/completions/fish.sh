# Completion of pi-sessions for fish. The shell itself quotes what it inserts.
function __pi_sessions_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    set -l word (commandline --current-token --cut-at-cursor)
    command pi-sessions complete fish -- $words "$word" 2>/dev/null
end
complete --command pi-sessions --no-files --keep-order --arguments '(__pi_sessions_complete)'
