// The types of the API, as the server's OpenAPI document has them. Made by page/api_types.py; do not edit.

declare namespace Api {
  interface About {
    version: string;
    default_agent: string;
    allow: Array<string>;
    max_prompt_bytes: number;
    max_attachment_bytes: number;
    person: PersonView;
    node?: string | null;
    several?: boolean;
  }

  interface AgUiProblem {
    type: "RUN_ERROR";
    message: string;
    code: string;
  }

  interface AgUiRequest {
    threadId: string;
    runId: string;
    messages: Array<Record<string, unknown>>;
    protocolVersion?: string | null;
    resume?: Array<AgUiResume> | null;
    forwardedProps?: unknown;
  }

  interface AgUiResume {
    interruptId: string;
    status: "cancelled" | "resolved";
    payload?: unknown;
  }

  interface AgentActivity {
    calls?: Array<RunningCall>;
    plan?: Array<PlanItem>;
  }

  interface AgentCommand {
    name: string;
    description?: string;
    hint?: string;
  }

  interface AgentModel {
    name: string;
    efforts?: Array<string>;
    default_effort?: string;
  }

  interface AgentView {
    name: string;
    installed: boolean;
    available: boolean;
    route: string;
    asks: boolean;
    allows: Array<Level>;
    default_allow: "all" | "ask" | "edits" | "own" | "read";
    resumes: boolean;
    install?: string | null;
    models?: Array<string>;
    reason?: string | null;
    efforts?: Array<string>;
  }

  interface AnswerBody {
    id: string;
    answer: string;
    always?: boolean;
  }

  interface Asked {
    kind: "question";
    at: number;
    parent?: number | null;
    given_up?: boolean;
    cut?: boolean;
    shortened?: number;
    text?: string;
    options?: Array<string> | null;
    answer?: string | null;
    changes?: Array<Change> | null;
    more_changes?: number;
  }

  interface Assistant {
    type: "assistant";
    content: string;
    replace?: boolean;
    turn: number;
  }

  interface AssistantDelta {
    type: "assistant";
    turn: number;
    delta: string;
    offset: number;
    replace?: boolean;
  }

  interface AttachedFile {
    id: string;
    name: string;
    media_type: string;
    size: number;
  }

  interface Branch {
    chat: ChatView;
    prompt: string;
    attachments: Array<AttachedFile>;
    turn?: number | null;
    repeated?: boolean;
  }

  interface BrowserView {
    id: string;
    name: string;
    created_at: number;
    used_at: number;
    current: boolean;
    person: string;
  }

  interface Called {
    kind: "call";
    at: number;
    parent?: number | null;
    given_up?: boolean;
    cut?: boolean;
    shortened?: number;
    title?: string;
    name?: string;
    tool_kind?: "delete" | "edit" | "execute" | "fetch" | "move" | "other" | "read" | "search" | "think";
    input?: string;
    output?: string;
    is_error?: boolean;
    exit_code?: number | null;
    until?: number | null;
    duration_ms?: number | null;
    refused?: boolean;
    status_unreported?: boolean;
    output_unreported?: boolean;
    changes?: Array<Change> | null;
    more_changes?: number;
    round?: number;
  }

  interface Change {
    path: string;
    kind: "add" | "delete" | "move" | "update";
    to?: string | null;
    added?: number | null;
    removed?: number | null;
    diff?: string | null;
    truncated?: boolean;
  }

  interface ChangedFiles {
    files: number;
    added?: number | null;
    removed?: number | null;
  }

  interface Changes {
    title?: string | null;
    model?: string | null;
    allow?: "all" | "ask" | "default" | "edits" | "own" | "read";
    visibility?: "private" | "team";
    heartbeat?: Heartbeat | null;
    pinned?: boolean;
    archived?: boolean;
    budget?: number | null;
    effort?: string | null;
  }

  interface ChatPage {
    chats: Array<ChatView>;
    next?: string;
    number?: number;
  }

  interface ChatRule {
    id: string;
    command: string;
    person: string;
  }

  interface ChatTree {
    name: string;
    branch: string;
    directory: string;
    onto: string;
  }

  interface ChatView {
    id: string;
    agent: string;
    cwd: string;
    created_at: number;
    model: string | null;
    title: string | null;
    allow: "all" | "ask" | "default" | "edits" | "own" | "read";
    heartbeat: Heartbeat | null;
    home: string | null;
    person: string;
    visibility: "private" | "team";
    pinned: boolean;
    archived: boolean;
    budget: number | null;
    spent: number;
    rules: Array<ChatRule>;
    effort: string | null;
    origin: Origin | null;
    continues: ContinuedConversation | null;
    tree: ChatTree | null;
    used_at: number;
    state: "idle" | "queued" | "running";
    asks: boolean;
    turns: number;
    has_session: boolean;
    held: number;
    is_away: boolean;
    read: number;
  }

  interface Completed {
    type: "completed";
    message: string;
    outcome: "cancelled" | "cut_off" | "empty" | "error" | "ok" | "timed_out";
    reason?: string | null;
    question?: OpenQuestion | null;
    turn: number;
    completed_at: number;
    cause?: "agent" | "auth" | "budget" | "context" | "length" | "missing" | "network" | "overloaded" | "provider" | "rate_limit" | "refusal" | "usage_limit" | null;
    resets_at?: number | null;
  }

  interface CompletionError {
    message: string;
    type: string;
    param: string | null;
    code: string | null;
  }

  interface CompletionFile {
    filename?: string | null;
    file_data?: string | null;
  }

  interface CompletionImage {
    url: string;
  }

  interface CompletionMessage {
    role: string;
    content?: string | Array<CompletionPart> | null;
  }

  interface CompletionModel {
    id: string;
    object?: "model";
    created?: number;
    owned_by?: string;
  }

  interface CompletionModels {
    data: Array<CompletionModel>;
    object?: "list";
  }

  interface CompletionPart {
    type: string;
    text?: string | null;
    image_url?: CompletionImage | null;
    file?: CompletionFile | null;
  }

  interface CompletionProblem {
    error: CompletionError;
  }

  interface CompletionRequest {
    model: string;
    messages: Array<CompletionMessage>;
    stream?: boolean | null;
    stream_options?: CompletionUsage | null;
    n?: number | null;
    response_format?: Record<string, unknown> | null;
    tool_choice?: string | Record<string, unknown> | null;
  }

  interface CompletionUsage {
    include_usage?: boolean | null;
  }

  interface ContinuedConversation {
    title: string;
    at: number;
  }

  interface ConversationView {
    agent: string;
    session_id: string;
    cwd: string;
    title: string;
    at: number;
    allows: Array<"all" | "ask" | "default" | "edits" | "own" | "read">;
    outcome?: string | null;
    chat?: string | null;
  }

  interface CostOfTurns {
    name: string;
    title: string | null;
    turns: number;
    cost_usd: number | null;
    turns_without_cost: number;
    input_tokens: number;
    output_tokens: number;
  }

  interface Costs {
    by: "agent" | "chat" | "day" | "person";
    days: number;
    sums: Array<CostOfTurns>;
    complete: boolean;
  }

  interface Deleted {
    type: "deleted";
  }

  interface DeniedAction {
    name: string;
    by: "person" | "policy";
  }

  interface Details {
    turn: TurnView;
    whole: boolean;
    items: Array<Thought | Said | Called | Noticed | Planned | Asked>;
  }

  interface DirectoryState {
    path: string;
    trusted: boolean;
    branch?: string | null;
    changes?: number | null;
    tree?: boolean;
  }

  interface EditedFrame {
    type: "edited";
    turn: number;
    prompt: string;
    edits: number;
  }

  interface EditedMessage {
    text: string;
    edits: number;
  }

  interface FileChanges {
    whole: boolean;
    files: number;
    changes: Array<Change>;
    added?: number | null;
    removed?: number | null;
    more_changes?: number;
    earlier?: boolean;
    found?: OtherChanges | null;
  }

  interface FileNames {
    paths: Array<string>;
  }

  interface FileUndo {
    path: string;
    does: "move" | "nothing" | "remove" | "restore" | "stay" | "write";
    to?: string | null;
    reason?: "binary" | "changed" | "counted" | "cut" | "failed" | "hard_link" | "kind" | "large" | "link" | "outside" | "overwritten" | "protected" | "unfit" | "unknown" | "unplaced" | null;
    text?: string | null;
  }

  interface FileView {
    path: string;
    first: number;
    lines: Array<string>;
    total: number;
  }

  interface FinalMessageStart {
    type: "final_message_start";
    turn: number;
  }

  interface Finalized {
    type: "finalized";
    turn: number;
    steps: number;
    duration_ms?: number | null;
    usage?: Usage | null;
    cost_usd?: number | null;
    agent?: string | null;
    model?: string | null;
    refused?: number;
    needs_allow?: "all" | "edits" | null;
    rejected?: number;
    denied?: Array<DeniedAction> | null;
    context_tokens?: number | null;
    context_window?: number | null;
    changed?: ChangedFiles | null;
    found?: number;
  }

  interface FirstFile {
    name: string;
    content: string;
  }

  interface FoundDirectory {
    path: string;
    trusted: boolean;
    branch?: string | null;
  }

  interface Goodbye {
    type: "goodbye";
  }

  interface HealthStatus {
    status: "ending" | "ok";
  }

  interface Heartbeat {
    minutes: number;
    prompt: string;
    quiet?: string | null;
    on?: boolean;
  }

  interface HeldTurns {
    type: "held";
    turns: Array<number>;
  }

  interface Hit {
    chat: string;
    title: string | null;
    turn: number | null;
    kind: "commands" | "paths" | "prompt" | "reply" | "title";
    text: string;
    marks: Array<Mark>;
    at: number;
    agent: string;
    cwd: string;
    archived: boolean;
    person: string;
  }

  interface LandChat {
    seen: string;
    message?: string | null;
  }

  interface LandRun {
    squash?: boolean;
  }

  interface LandedWork {
    way: string;
    branch: string;
    commit: string;
  }

  interface LandingFile {
    path: string;
    added: number;
    removed: number;
  }

  interface LandingPlan {
    branch: string;
    onto: string;
    repository: string;
    seen: string;
    subject: string;
    files: Array<LandingFile>;
    more?: number;
    is_new?: boolean;
    commits?: Array<string>;
    left?: Array<UncommittedFile>;
    way?: string | null;
    problem?: string;
    help?: string;
    paths?: Array<string>;
  }

  interface Level {
    allow: "all" | "ask" | "edits" | "own" | "read";
    label: string;
    text: string;
    kind: "all" | "answers" | "asks" | "edits" | "own" | "reads";
  }

  interface Link {
    url: string;
    host: string;
    allowed: Array<string>;
  }

  interface Login {
    code?: string | null;
    token?: string | null;
  }

  interface Logout {
    everywhere?: boolean;
  }

  interface LoopCandidateView {
    name: string;
    result: string;
    changes: string;
    ms?: number;
    cost_usd?: number | null;
    ref?: string;
    chosen?: string | null;
  }

  interface LoopMessage {
    text: string;
  }

  interface LoopMessageView {
    text: string;
    round?: number;
    is_read?: boolean;
  }

  interface LoopRoundView {
    round: number;
    result: string;
    is_over?: boolean;
    task?: string | null;
    ms?: number;
    cost_usd?: number | null;
    commit?: string | null;
    has_changes?: boolean;
    candidates?: Array<LoopCandidateView>;
  }

  interface LoopStepView {
    step: number;
    kind: "check" | "choose" | "commit" | "judge" | "merge" | "plan" | "publish" | "review" | "setup" | "tree" | "work";
    state: "failed" | "ok" | "running";
    round?: number;
    turn?: number | null;
    agent?: string | null;
    candidate?: string | null;
    text?: string;
    note?: string;
    remarks?: Array<string>;
    began_at?: number;
    ms?: number | null;
    status?: number | null;
    has_output?: boolean;
    cost_usd?: number | null;
  }

  interface LoopView {
    prompt: string;
    branch: string;
    begun_at: number;
    rounds: Array<LoopRoundView>;
    steps: Array<LoopStepView>;
    messages: Array<LoopMessageView>;
    ms: number;
    cost_usd: number;
    max_rounds: number;
    charged_rounds: number;
    is_cost_known?: boolean;
    max_cost_usd?: number | null;
    max_ms?: number | null;
    tasks?: Array<string>;
    finished_tasks?: Array<string>;
    question?: string | null;
    plan?: Array<string> | null;
    waits_until?: number | null;
    is_stopping?: boolean;
    status?: number | null;
    reason?: string | null;
    can_land?: boolean;
    landed?: string | null;
  }

  interface MadeShare {
    share: ShareView;
    url: string;
  }

  interface Mark {
    start: number;
    end: number;
  }

  interface NewBranch {
    agent?: string | null;
    send?: boolean;
    tree?: boolean;
  }

  interface NewChat {
    agent?: string | null;
    cwd?: string | null;
    model?: string | null;
    title?: string | null;
    allow?: "all" | "ask" | "default" | "edits" | "own" | "read";
    home?: string | null;
    id?: string | null;
    depth?: number;
    visibility?: "private" | "team";
    effort?: string | null;
    session?: string | null;
    tree?: boolean;
    text?: string | null;
    files?: Array<FirstFile>;
  }

  interface NewLink {
    person?: string | null;
  }

  interface NewPush {
    endpoint: string;
    p256dh: string;
    auth: string;
    on?: Array<"asks" | "ended">;
  }

  interface NewShare {
    until?: number | null;
    details?: boolean;
    days?: number;
  }

  interface NoBody {
  }

  interface NodeAbout {
    version: string;
    host: string;
    pid: number;
    roots?: Array<string>;
    trusted?: Array<string>;
    agents?: Array<string>;
    models?: Record<string, Array<string>>;
    slots?: number;
    busy?: number;
    knows?: Array<string>;
  }

  interface NodeChat {
    id: string;
    title: string | null;
  }

  interface NodeView {
    name: string;
    is_here: boolean;
    is_live: boolean;
    seen_seconds: number;
    about: NodeAbout;
    chats: Array<NodeChat>;
  }

  interface Noticed {
    kind: "notice";
    at: number;
    parent?: number | null;
    given_up?: boolean;
    cut?: boolean;
    shortened?: number;
    level: "error" | "info" | "warning";
    text?: string;
  }

  interface OpenQuestion {
    id: string;
    text: string;
    ask: "choice" | "command" | "edit" | "network" | "outside" | "text" | "tool";
    options?: Array<Option> | null;
    free_text?: boolean;
    call_id?: string | null;
    tool_kind?: "delete" | "edit" | "execute" | "fetch" | "move" | "other" | "read" | "search" | "think" | null;
    title?: string | null;
    changes?: Array<Change> | null;
    command?: string | null;
    more_changes?: number;
  }

  interface Option {
    id: string;
    label: string;
    kind: "allow_always" | "allow_once" | "choice" | "reject_always" | "reject_once";
    wide?: boolean;
  }

  interface Order {
    seen: Array<number>;
    turns: Array<number>;
  }

  interface Origin {
    chat: string;
    turn: number;
    conversation?: string | null;
  }

  interface OtherChanges {
    changes?: Array<Change>;
    more_changes?: number;
    problem?: "failed" | "large" | "slow" | null;
  }

  interface PersonView {
    name: string;
    role: "member" | "owner" | "viewer";
  }

  interface PlacedFrame {
    place: number;
    chat: string;
    frame: Record<string, unknown>;
    number?: number | null;
    at?: number | null;
  }

  interface PlanFrame {
    type: "plan";
    turn: number;
    done?: number;
    all?: number;
  }

  interface PlanItem {
    text: string;
    status: "completed" | "in_progress" | "pending";
  }

  interface PlanProgress {
    done?: number;
    all?: number;
  }

  interface Planned {
    kind: "plan";
    at: number;
    parent?: number | null;
    given_up?: boolean;
    cut?: boolean;
    shortened?: number;
    items: Array<PlanItem>;
  }

  interface Problem {
    type: string;
    title: string;
    status: number;
    detail: string;
    code: string;
    help?: string;
    paths?: Array<string>;
  }

  interface Prompt {
    text: string;
    attachments?: Array<string>;
    now?: boolean;
    stops?: number | null;
    steers?: number | null;
  }

  interface PromptVariable {
    name: string;
    value?: string;
  }

  interface PromptedFrame {
    type: "prompted";
    turn: number;
    prompt: string;
    by: "answer" | "heartbeat" | "person";
    asked_at: number;
    key?: string | null;
    person?: string;
    attachments?: Array<AttachedFile> | null;
  }

  interface PushKey {
    key: string;
  }

  interface QueueFrame {
    type: "queue";
    turns: Array<number>;
  }

  interface ReadChats {
    chats: Record<string, number>;
  }

  interface Readiness {
    status: "ready" | "unready";
    reason?: string | null;
  }

  interface RoundChanges {
    changes: Array<Change>;
    more_changes?: number;
  }

  interface RunChanged {
    type: "run";
    run: RunView;
    loop?: LoopView | null;
  }

  interface RunChanges {
    visibility?: "private" | "team" | null;
    person?: string | null;
  }

  interface RunDetails {
    run: RunView;
    loop?: LoopView | null;
  }

  interface RunView {
    id: string;
    kind: "document" | "loop";
    title: string;
    path: string;
    state: "asks" | "idle" | "running";
    note: string;
    used_at: number;
    agent?: string | null;
    person: string;
    visibility: "private" | "team";
  }

  interface RunningCall {
    title: string;
    name: string;
    tool_kind: "delete" | "edit" | "execute" | "fetch" | "move" | "other" | "read" | "search" | "think";
    at: number;
    output?: string;
    shortened?: number;
  }

  interface Said {
    kind: "text";
    at: number;
    parent?: number | null;
    given_up?: boolean;
    cut?: boolean;
    shortened?: number;
    text?: string;
    round?: number;
  }

  interface SearchResult {
    hits: Array<Hit>;
    complete: boolean;
    next: string | null;
  }

  interface SendNow {
    stops?: number | null;
  }

  interface ShareView {
    id: string;
    chat: string;
    created_at: number;
    expires_at: number;
    until: number | null;
    details: boolean;
    person: string;
  }

  interface SharedChat {
    title: string | null;
    agent: string;
    expires_at: number;
    until: number | null;
    details: boolean;
    turns: Array<SharedTurn>;
    earlier: boolean;
  }

  interface SharedDetails {
    whole: boolean;
    items: Array<Thought | Said | Called | Noticed | Planned | Asked>;
  }

  interface SharedTurn {
    turn: number;
    prompt: string;
    by: "answer" | "heartbeat" | "person";
    state: "completed" | "queued" | "running";
    asked_at: number;
    text: string;
    outcome: "cancelled" | "cut_off" | "empty" | "error" | "ok" | "timed_out" | null;
    attachments?: Array<AttachedFile> | null;
  }

  interface Snapshot {
    type: "snapshot";
    number: number;
    turns: Array<TurnView>;
    earlier?: boolean;
  }

  interface Steer {
    into: number;
    state: "given" | "late" | "taken";
  }

  interface SteerFrame {
    type: "steer";
    turn: number;
    steer: Steer;
  }

  interface SteerTurn {
    into: number;
  }

  interface SteerableFrame {
    type: "steerable";
    turn: number;
  }

  interface StepOutput {
    output: string;
    shortened?: number;
  }

  interface Stop {
    turn?: number | null;
    queued?: boolean;
  }

  interface StopRun {
    now?: boolean;
  }

  interface StoreChanged {
    type: "store";
    works: boolean;
    reason?: string;
    help?: string;
  }

  interface StoredPrompt {
    name: string;
    description: string;
    text: string;
    variables: Array<PromptVariable>;
  }

  interface Streaming {
    type: "streaming";
    status: string;
    question?: OpenQuestion | null;
    turn: number;
    began_at?: number | null;
  }

  interface TerminalLines {
    penstock?: string | null;
    agent?: string | null;
    note?: string | null;
  }

  interface Thinking {
    type: "thinking";
    content: string;
    turn: number;
  }

  interface Thought {
    kind: "thinking";
    at: number;
    parent?: number | null;
    given_up?: boolean;
    cut?: boolean;
    shortened?: number;
    text?: string;
  }

  interface Trust {
    path: string;
    home?: string | null;
  }

  interface TurnFiles {
    turn: number;
    files: Array<FileUndo>;
    redo?: boolean;
    commands?: number;
    repeated?: boolean;
  }

  interface TurnNumber {
    turn: number;
  }

  interface TurnNumbers {
    turns: Array<number>;
  }

  interface TurnPage {
    turns: Array<TurnView>;
    earlier: boolean;
  }

  interface TurnView {
    turn: number;
    prompt: string;
    by?: "answer" | "heartbeat" | "person";
    key?: string | null;
    state?: "completed" | "queued" | "running";
    asked_at?: number;
    began_at?: number | null;
    completed_at?: number | null;
    agent?: string | null;
    model?: string | null;
    held?: boolean;
    person?: string;
    attachments?: Array<AttachedFile> | null;
    edits?: number;
    place?: number;
    steer?: Steer | null;
    steerable?: boolean;
    status?: string | null;
    reply?: string | null;
    question?: OpenQuestion | null;
    plan?: PlanProgress | null;
    message?: string;
    outcome?: "cancelled" | "cut_off" | "empty" | "error" | "ok" | "timed_out" | null;
    reason?: string | null;
    cause?: "agent" | "auth" | "budget" | "context" | "length" | "missing" | "network" | "overloaded" | "provider" | "rate_limit" | "refusal" | "usage_limit" | null;
    resets_at?: number | null;
    finalized?: boolean;
    steps?: number;
    refused?: number;
    rejected?: number;
    denied?: Array<DeniedAction> | null;
    needs_allow?: "all" | "edits" | null;
    duration_ms?: number | null;
    usage?: Usage | null;
    cost_usd?: number | null;
    context_tokens?: number | null;
    context_window?: number | null;
    changed?: ChangedFiles | null;
    found?: number;
    undone?: UndoneFiles | null;
    undos?: Record<string, number> | null;
    first?: number;
    last?: number;
  }

  interface UiApproval {
    id: string;
    approved?: boolean | null;
  }

  interface UiMessage {
    id: string;
    role: string;
    parts: Array<UiPart>;
  }

  interface UiPart {
    type: string;
    text?: string | null;
    state?: string | null;
    url?: string | null;
    filename?: string | null;
    approval?: UiApproval | null;
  }

  interface UiRequest {
    id: string;
    messages: Array<UiMessage>;
    trigger?: string | null;
    messageId?: string | null;
    model?: string | null;
  }

  interface UncommittedFile {
    path: string;
    text: string;
  }

  interface UndoTurn {
    redo?: boolean;
  }

  interface UndoneFiles {
    files: number;
    stayed?: number;
    at?: number;
    person?: string;
  }

  interface UndoneFrame {
    type: "undone";
    turn: number;
    undone?: UndoneFiles | null;
  }

  interface Usage {
    input_tokens?: number | null;
    output_tokens?: number | null;
    cached_tokens?: number | null;
    cache_write_tokens?: number | null;
    reasoning_tokens?: number | null;
    cost_usd?: number | null;
  }

  interface Workspace {
    path: string;
    trusted: boolean;
  }

  interface WorkspaceList {
    roots: Array<Workspace>;
    recent: Array<Workspace>;
  }

  type Frame = Snapshot | PromptedFrame | HeldTurns | QueueFrame | EditedFrame | SteerFrame | SteerableFrame | Streaming | Thinking | PlanFrame | FinalMessageStart | Assistant | AssistantDelta | Completed | Finalized | UndoneFrame | Deleted | StoreChanged | Goodbye;

  type RunFrame = Snapshot | PromptedFrame | HeldTurns | QueueFrame | EditedFrame | SteerFrame | SteerableFrame | Streaming | Thinking | PlanFrame | FinalMessageStart | Assistant | AssistantDelta | Completed | Finalized | UndoneFrame | Deleted | StoreChanged | Goodbye | RunChanged;
}
