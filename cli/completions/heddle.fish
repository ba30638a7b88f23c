# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_heddle_global_optspecs
    string join \n h/help V/version
end

function __fish_heddle_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_heddle_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_heddle_using_subcommand
    set -l cmd (__fish_heddle_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c heddle -n "__fish_heddle_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c heddle -n "__fish_heddle_needs_command" -s V -l version -d 'Print version'
complete -c heddle -n "__fish_heddle_needs_command" -f -a "run" -d 'Run an unmodified threaded program: its threads named, sized and prioritised'
complete -c heddle -n "__fish_heddle_needs_command" -f -a "stacks" -d 'Show, forget or export what earlier runs learned of stacks'
complete -c heddle -n "__fish_heddle_needs_command" -f -a "serve" -d 'Serve the files of a folder over HTTP, one thread per connection'
complete -c heddle -n "__fish_heddle_needs_command" -f -a "ps" -d 'Show the threads of processes'
complete -c heddle -n "__fish_heddle_needs_command" -f -a "top" -d 'Show threads live: what they do, how full their stacks are, what to look at'
complete -c heddle -n "__fish_heddle_needs_command" -f -a "doctor" -d 'Show what this machine supports and which fallbacks are in force'
complete -c heddle -n "__fish_heddle_needs_command" -f -a "generate" -d 'Write man pages, shell completions or the preload libraries into a folder'
complete -c heddle -n "__fish_heddle_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c heddle -n "__fish_heddle_using_subcommand run" -l policy -d 'What threads are for, how urgent they are and how large their stacks are (TOML)' -r -F
complete -c heddle -n "__fish_heddle_using_subcommand run" -l stacks -d 'Whether stacks are only measured or also sized by what earlier runs needed' -r -f -a "observe\t'Measure, change nothing'
auto\t'Size stacks of threads that ask for no size, if there is history'
force\t'Size all stacks but those on the program\'s own memory'"
complete -c heddle -n "__fish_heddle_using_subcommand run" -l threads -d 'What its threads run on: kernel threads of their own, or heddle\'s user-level threads' -r -f -a "kernel\t'As the program makes them'
user\t'On heddle\'s runtime, where the program and the C library allow it'"
complete -c heddle -n "__fish_heddle_using_subcommand run" -l workers -d 'Kernel threads that run the user-level threads [default: one per CPU]' -r
complete -c heddle -n "__fish_heddle_using_subcommand run" -l report -d 'Form of the report at the end' -r -f -a "text\t'For people'
json\t'One JSON document; its keys are listed in heddle-report(5)'
html\t'One page that needs no other file'
none\t'No report'"
complete -c heddle -n "__fish_heddle_using_subcommand run" -l report-to -d 'Write the report to this file instead of standard error' -r -F
complete -c heddle -n "__fish_heddle_using_subcommand run" -l pid -d 'Apply the policy\'s priorities to a running process instead, until it ends or Ctrl-C' -r
complete -c heddle -n "__fish_heddle_using_subcommand run" -l tripwire -d 'Report with a backtrace when a thread uses more of its stack than the High zone\'s border'
complete -c heddle -n "__fish_heddle_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c heddle -n "__fish_heddle_using_subcommand stacks" -l json -d 'Print JSON, which is the only form of an export'
complete -c heddle -n "__fish_heddle_using_subcommand stacks" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l addr -d 'Address to listen on; 0.0.0.0 or :: for all [default: 127.0.0.1]' -r
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l port -d 'Port to listen on; 0 takes a free one [default: 8080]' -r
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l threads -d 'What connections run on: user-level threads, or a kernel thread each [default: user]' -r -f -a "user\t''
kernel\t''"
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l workers -d 'Kernel threads that run the user-level threads [default: one per CPU]' -r
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l tls-cert -d 'Speak TLS with this certificate chain (PEM)' -r -F
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l tls-key -d 'Private key of the certificate (PEM)' -r -F
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l access-log -d 'Append a line per request to this file, in the combined format; - for standard output' -r -F
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l max-connections -d 'Connections at a time; more are answered 503 [default: 100000]' -r
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l cache -d 'Memory for heads and small files, such as 64M [default: 64M]' -r
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l idle-timeout -d 'Seconds that a connection may rest between requests [default: 60]' -r
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l head-timeout -d 'Seconds that a request may take to arrive [default: 10]' -r
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l send-timeout -d 'Seconds that a client may take for 128 KiB of an answer [default: 30]' -r
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l grace -d 'Seconds that answers in progress get at the end [default: 10]' -r
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l listing -d 'List folders that have no index.html (otherwise: 403)'
complete -c heddle -n "__fish_heddle_using_subcommand serve" -l no-live -d 'No page about the threads at /heddle/'
complete -c heddle -n "__fish_heddle_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c heddle -n "__fish_heddle_using_subcommand ps" -l role -d 'Only threads with this role' -r
complete -c heddle -n "__fish_heddle_using_subcommand ps" -l state -d 'Only threads in this state' -r -f -a "new\t''
ready\t''
running\t''
parked\t''
EV_WAIT\t''
finished\t''"
complete -c heddle -n "__fish_heddle_using_subcommand ps" -l sort -d 'What to sort threads by; largest first, except ids' -r -f -a "id\t''
cpu\t''
switches\t''
peak\t''"
complete -c heddle -n "__fish_heddle_using_subcommand ps" -l json -d 'Print JSON: one object for a PID, else an array of them; sizes in bytes, times in ns'
complete -c heddle -n "__fish_heddle_using_subcommand ps" -l by-role -d 'One line per role instead of one per thread'
complete -c heddle -n "__fish_heddle_using_subcommand ps" -l sweep -d 'Remove the tables of dead processes instead of showing any'
complete -c heddle -n "__fish_heddle_using_subcommand ps" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c heddle -n "__fish_heddle_using_subcommand top" -l interval -d 'Seconds between looks; with --once, over which rates are taken' -r
complete -c heddle -n "__fish_heddle_using_subcommand top" -l sort -d 'What to sort threads by' -r -f -a "cpu\t'CPU use since the last look'
peak\t'Deepest stack use'
stack\t'How full the stack is'
switches\t'Switches since the last look'
class\t'Time-critical first, by priority'
role\t'Role, then name'
name\t'Name'
id\t'Process and thread id'"
complete -c heddle -n "__fish_heddle_using_subcommand top" -l filter -d 'Only threads that have this in their role or name' -r
complete -c heddle -n "__fish_heddle_using_subcommand top" -l once -d 'Print one look instead of a live screen'
complete -c heddle -n "__fish_heddle_using_subcommand top" -l json -d 'Print JSON: an object with processes, threads and advice'
complete -c heddle -n "__fish_heddle_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c heddle -n "__fish_heddle_using_subcommand doctor" -l program -d 'Judge this program instead of the machine: a path, or a name that is searched in PATH' -r -f -a "(__fish_complete_command)"
complete -c heddle -n "__fish_heddle_using_subcommand doctor" -l json -d 'Print JSON: an array of objects with area, name, value, verdict and consequence'
complete -c heddle -n "__fish_heddle_using_subcommand doctor" -l problems -d 'Only what is not good'
complete -c heddle -n "__fish_heddle_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c heddle -n "__fish_heddle_using_subcommand generate" -s h -l help -d 'Print help'
complete -c heddle -n "__fish_heddle_using_subcommand help; and not __fish_seen_subcommand_from run stacks serve ps top doctor generate help" -f -a "run" -d 'Run an unmodified threaded program: its threads named, sized and prioritised'
complete -c heddle -n "__fish_heddle_using_subcommand help; and not __fish_seen_subcommand_from run stacks serve ps top doctor generate help" -f -a "stacks" -d 'Show, forget or export what earlier runs learned of stacks'
complete -c heddle -n "__fish_heddle_using_subcommand help; and not __fish_seen_subcommand_from run stacks serve ps top doctor generate help" -f -a "serve" -d 'Serve the files of a folder over HTTP, one thread per connection'
complete -c heddle -n "__fish_heddle_using_subcommand help; and not __fish_seen_subcommand_from run stacks serve ps top doctor generate help" -f -a "ps" -d 'Show the threads of processes'
complete -c heddle -n "__fish_heddle_using_subcommand help; and not __fish_seen_subcommand_from run stacks serve ps top doctor generate help" -f -a "top" -d 'Show threads live: what they do, how full their stacks are, what to look at'
complete -c heddle -n "__fish_heddle_using_subcommand help; and not __fish_seen_subcommand_from run stacks serve ps top doctor generate help" -f -a "doctor" -d 'Show what this machine supports and which fallbacks are in force'
complete -c heddle -n "__fish_heddle_using_subcommand help; and not __fish_seen_subcommand_from run stacks serve ps top doctor generate help" -f -a "generate" -d 'Write man pages, shell completions or the preload libraries into a folder'
complete -c heddle -n "__fish_heddle_using_subcommand help; and not __fish_seen_subcommand_from run stacks serve ps top doctor generate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
