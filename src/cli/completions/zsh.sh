#compdef pi-sessions
# Completion of pi-sessions for zsh. The shell itself quotes what it inserts.
_pi_sessions() {
    local line value shown
    local -a lines values texts open open_texts
    lines=("${(@f)$(command pi-sessions complete zsh -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in "${lines[@]}"; do
        value="${line%%$'\t'*}"
        [[ -n $value ]] || continue
        shown="$value"
        [[ $line == *$'\t'* ]] && shown="$value  -- ${line#*$'\t'}"
        # A folder goes on, and so does an option that wants a value.
        if [[ $value == */ || $value == *= ]]; then
            open+=("$value")
            open_texts+=("$shown")
        else
            values+=("$value")
            texts+=("$shown")
        fi
    done
    (( $#open )) && compadd -l -V open -S '' -d open_texts -a -- open
    (( $#values )) && compadd -l -V sessions -d texts -a -- values
    (( $#open + $#values ))
}
if [[ "${funcstack[1]}" == "_pi-sessions" ]]; then
    _pi_sessions "$@"
else
    compdef _pi_sessions pi-sessions
fi
