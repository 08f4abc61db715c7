# Completion of pi-sessions for bash.
# pi-sessions itself reads the line, so that quotes and word breaks are its affair, and gives what is to stand there.
_pi_sessions() {
    local reply
    COMPREPLY=()
    while IFS= read -r reply; do
        COMPREPLY+=("$reply")
    done < <(command pi-sessions complete bash -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" "$COMP_TYPE" 2>/dev/null)
    # A folder goes on, and so does an option that wants a value.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o nosort -F _pi_sessions pi-sessions 2>/dev/null || complete -F _pi_sessions pi-sessions
